"""Submits, suspends, resumes and deletes one workload of every type, and does the same to several in batches."""

import json
from typing import Any

from clients import GIVEN, Client, until
from runai import models

COMPUTE = {"cpuCoreRequest": 0.1, "cpuMemoryRequest": "64Mi"}
SPEC = {"image": "python:3.11", "command": "sleep", "args": "600", "compute": COMPUTE}


def types(client: Client) -> dict[str, tuple[Any, Any, Any, Any, Any, Any, Any]]:
    work = client.runai.workloads
    return {
        "workspaces": (
            models.WorkspaceCreationRequest,
            models.Workspace1,
            work.workspaces.create_workspace1,
            work.workspaces.get_workspace,
            work.workspaces.suspend_workspace,
            work.workspaces.resume_workspace,
            work.workspaces.delete_workspace,
        ),
        "trainings": (
            models.TrainingCreationRequest,
            models.Training1,
            work.trainings.create_training1,
            work.trainings.get_training,
            work.trainings.suspend_training,
            work.trainings.resume_training,
            work.trainings.delete_training,
        ),
        "distributed": (
            models.DistributedCreationRequest,
            models.DistributedWorkload,
            work.distributed.create_distributed,
            work.distributed.get_distributed,
            work.distributed.suspend_distributed,
            work.distributed.resume_distributed,
            work.distributed.delete_distributed,
        ),
    }


def main() -> None:
    client = Client(GIVEN["kind"])
    seen: dict[str, Any] = {}
    for kind, (request, model, create, get, suspend, resume, delete) in types(client).items():
        body = request.model_validate({"name": f"a-{kind}", **GIVEN["place"], "spec": SPEC})
        made = client.answer(create, body)
        model.model_validate(made.data)
        ref = made.data["workloadId"]

        def phase(get: Any = get, model: Any = model, ref: str = ref) -> str:
            found = client.call(get, ref)
            model.model_validate(found)
            return found["actualPhase"]

        phases = [until(phase, lambda word: word == "Running")]
        codes = [made.status_code]
        for act, word in ((suspend, "Stopped"), (resume, "Running")):
            done = client.answer(act, ref)
            models.HttpResponse.model_validate(done.data)
            codes.append(done.status_code)
            phases.append(until(phase, lambda seen, word=word: seen == word))
        codes.append(client.answer(delete, ref).status_code)
        seen[kind] = {"codes": codes, "phases": phases, "spec": made.data["spec"]}
    seen["batches"] = batches(client)
    client.close()
    print(json.dumps(seen))


def batches(client: Client) -> list[Any]:
    """What became of two workloads and of one that there is not, for each action."""
    work = client.runai.workloads
    refs = []
    for number in range(2):
        body = models.InferenceCreationRequest.model_validate({"name": f"b-{number}", **GIVEN["place"], "spec": SPEC})
        made = client.call(work.inferences.create_inference1, body)
        models.Inference1.model_validate(made)
        refs.append(made["workloadId"])
    told = []
    for action in ("suspend", "resume", "delete"):
        if action == "resume":
            for ref in refs:
                until(
                    lambda ref=ref: client.call(work.inferences.get_inference, ref)["actualPhase"],
                    lambda phase: phase == "Stopped",
                )
        batch = models.WorkloadBatch(ids=[*refs, GIVEN["place"]["clusterId"]], action=action)
        answer = client.call(work.workloads_batch.batch_workloads, batch)
        models.BatchResponse.model_validate(answer)
        told.append([len(answer["succeeded"]), [each["code"] for each in answer["failed"]]])
    return told


main()
