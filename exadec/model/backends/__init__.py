"""Everything that is fast rather than readable, behind one interface: `Backend`.

`reference` is plain PyTorch and runs anywhere. `triton` needs a CUDA GPU. `hopper` needs an H100 or H200 and bfloat16.
A model is given one of them once, by `choose_backend`, and trains with it. Search always uses the reference.
"""
