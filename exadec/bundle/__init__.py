"""A run -> one file to hand over -> the same run, anywhere; or ONNX files for other programs."""
