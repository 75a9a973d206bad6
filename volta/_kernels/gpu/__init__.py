"""The GPU hot path: blocks, bind groups, the recorded stream and transfers. Built once."""
