"""torch.storage, whose classes nothing here is an instance of (`refused.py`)."""
