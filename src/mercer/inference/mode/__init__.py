"""The mode of a posterior: Newton, softmax blocks, convex duals."""
