"""What every part knows of a training step: tensors, results, samples, the module and what stands in its place."""
