"""Where every GPU-second went: folds readings and allocations into hours and accounts. Pure: arrays in, structs out."""
