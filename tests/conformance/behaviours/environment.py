"""Pods get the variables of their launch spec, find their devices, and find each other."""

from msgspec import structs
from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import Program

from stoker.domain.cluster.resources import MILLI, Resources

TEXT = 'ü "quoted" $HOME `x`\nsecond line'


@needs(Feature.PROGRAMS)
class TestEnvironment:
    def test_variables_arrive_as_they_are(self, harness: ConformanceHarness) -> None:
        program = Program("printf '%s|' \"$WORDS\" 'a\"b' 'ü'; echo \"$EMPTY\"")
        uid = harness.uid(harness.start(program, env={"WORDS": TEXT, "EMPTY": ""}))
        harness.ended(uid)
        assert "\n".join(harness.lines(uid)) == f'{TEXT}|a"b|ü|'

    def test_every_rank_knows_its_own(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(Program("echo rank $RANK of $WORLD_SIZE"), replicas=3)
        for rank, uid in enumerate(harness.uids(launch_spec)):
            harness.ended(uid)
            assert harness.lines(uid) == [f"rank {rank} of 3"]

    def test_ranks_find_the_first_one(self, harness: ConformanceHarness) -> None:
        fixture = harness.fixture
        script = (
            f"if [ $RANK = 0 ]; then export PORT=$MASTER_PORT; {fixture.answer_script}; fi; {fixture.connect_script}"
        )
        launch_spec = harness.start(Program(script), replicas=2)
        first, second = harness.uids(launch_spec)
        assert harness.ended(second).exit_code == 0
        assert harness.lines(second) == [first]

    def test_a_pod_sees_the_devices_of_its_assignment(self, harness: ConformanceHarness) -> None:
        devices = (harness.devices(2, 3), harness.devices(1), ())
        expected = [harness.fixture.visible_devices(each) for each in devices]
        names = sorted({name for each in expected for name in each})
        program = Program("; ".join(f'echo "{name}=${name}"' for name in names))
        launch_spec = harness.specs.build(program, replicas=3, devices=devices, resources=Resources(MILLI))
        harness.apply(structs.replace(launch_spec, gang=False))
        for variables, uid in zip(expected, harness.uids(launch_spec), strict=True):
            assert harness.ended(uid).exit_code == 0
            assert dict(line.split("=", 1) for line in harness.lines(uid)) == variables
