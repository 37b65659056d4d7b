"""Since when allocated GPUs have been idle: tracked live, and backfilled from stored samples."""
