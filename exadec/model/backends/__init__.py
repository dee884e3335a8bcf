"""All code that is written for speed rather than for reading, behind one interface: `Backend`.

`reference` is plain PyTorch and runs anywhere. `triton` needs a CUDA GPU. `hopper` needs an H100 or H200 and bfloat16.
`choose_backend` picks one for training. Search always uses the reference.
"""
