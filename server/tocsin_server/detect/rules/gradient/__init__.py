"""Rules for gradient norms and clipping."""
