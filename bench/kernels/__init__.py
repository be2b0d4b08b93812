"""How fast the kernels are on a GPU, beside the best published ones, torch's own, and a plain copy."""
