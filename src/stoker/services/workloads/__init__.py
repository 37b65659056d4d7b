"""Submit, change, stop and query workloads; their pods, logs, events and the explanation of why they are pending."""
