"""What each family of estimators computes, as an ONNX graph."""
