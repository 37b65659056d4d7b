"""The bodies that the management document prints, as they stand there."""

from typing import Any

EXAMPLE: dict[str, Any] = {
    "displayName": "my-training-job",
    "description": "Training job description",
    "workspaceId": "cluster-workspace",
    "groupVersionKind": {"kind": "PyTorchJob", "version": "v1"},
    "image": "harbor.example.com/ai/pytorch:2.0",
    "entryPoint": "cHl0aG9uIHRyYWluLnB5",
    "resource": {"cpu": "128", "gpu": "8", "memory": "256Gi", "replica": 1},
    "priority": 0,
    "timeout": 3600,
    "maxRetry": 0,
    "env": {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"},
    "specifiedNodes": [],
}
PATCH: dict[str, Any] = {
    "priority": 1,
    "replica": 2,
    "cpu": "256",
    "gpu": "16",
    "memory": "512Gi",
    "image": "harbor.example.com/ai/pytorch:2.1",
    "description": "New description",
    "timeout": 7200,
    "env": {"NEW_VAR": "value"},
}
