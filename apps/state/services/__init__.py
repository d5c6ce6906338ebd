"""What can be done with a namespace's state, one function per operation. No HTTP here: views are thin over these."""
