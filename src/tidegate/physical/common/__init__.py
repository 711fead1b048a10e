"""Parts that all operators share: their contract, batches of elements, dead letters, holding back, the state cache."""
