"""A name in a query stays a name, whatever it is made of."""

import ast
import re

from hypothesis import given
from hypothesis import strategies as st

from stoker.telemetry.prometheus.exporter_schemas import ExporterField, ExporterSchema, GpuSelector
from stoker.telemetry.prometheus.node_matching import NodeMatcher, node_regex
from stoker.telemetry.prometheus.promql import escape_regex, quote, selector

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
def test_a_quoted_text_is_one_string_and_reads_back_as_itself(text: str) -> None:
    written = quote(text)
    assert "\n" not in written
    assert re.fullmatch(r'"([^"\\]|\\["\\n]|\\x[0-9a-f]{2})*"', written)
    assert ast.literal_eval(written) == text


@given(TEXT, TEXT)
def test_a_literal_expression_matches_its_text_and_no_other(text: str, other: str) -> None:
    assert re.fullmatch(escape_regex(text), text)
    assert bool(re.fullmatch(escape_regex(text), other)) == (text == other)


def test_a_name_that_would_end_the_query_does_not() -> None:
    nasty = 'x"} or vector(1) #\\\n.*'
    assert selector("m", {"node": escape_regex(nasty)}) == r'm{node=~"x\"\\} or vector\\(1\\) #\\\\\n\\.\\*"}'


def test_a_query_names_the_exporters_in_the_order_of_trust() -> None:
    query = ExporterSchema("amd_").build_query(ExporterField.UTILIZATION, GpuSelector(), str)
    assert query == "amd_DCGM_FI_DEV_GPU_UTIL or amd_gpu_gfx_activity or amd_gpu_utilization"


def test_a_label_that_was_set_replaces_those_of_the_exporters() -> None:
    query = ExporterSchema(node_label="node").build_query(ExporterField.XID, GpuSelector(("n1",), (0, 3)), str)
    assert query == r'DCGM_FI_DEV_XID_ERRORS{node=~"(?i:(n1(\\..*)?)(:[0-9]+)?)",gpu=~"0|3"}'


def test_a_node_is_known_with_and_without_its_domain() -> None:
    names = NodeMatcher(["gpu-1", "gpu-2.example.com", "10.0.0.7"])
    assert names.match("gpu-1") == names.match("GPU-1.cluster.local") == names.match("gpu-1:9400") == "gpu-1"
    assert names.match("gpu-2") == names.match("gpu-2.example.com:9400") == "gpu-2.example.com"
    assert names.match("gpu-2.elsewhere.org") is None
    assert names.match("10.0.0.7:9400") == "10.0.0.7"
    assert names.match("10") is None
    assert names.match("10.0.0.8") is None


def test_a_name_that_could_be_two_nodes_is_neither() -> None:
    names = NodeMatcher(["a.x.com", "a.y.com"])
    assert names.match("a") is None
    assert names.match("a.y.com") == "a.y.com"


@given(st.sampled_from(["gpu-1", "gpu-2.example.com", "10.0.0.7", "fe80::1"]), st.text("gpu-12.exam:9x0", max_size=12))
def test_what_is_found_was_asked_for(node: str, label: str) -> None:
    for name in (label, node, node.upper(), f"{node}:9400", node.partition(".")[0]):
        if NodeMatcher([node]).match(name) is not None:
            assert re.fullmatch(node_regex(node), name)
