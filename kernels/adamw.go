package kernels

var _ = defineOptimizer(adamRule("adamw", "AdamW", "Adam with decoupled weight decay", "0.01", true))
