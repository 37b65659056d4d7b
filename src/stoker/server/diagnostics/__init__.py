"""What `stoker check` looks at. Each check looks and says; none changes anything."""
