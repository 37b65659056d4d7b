"""The checks of `stoker check`. Each check reports findings and changes nothing."""
