"""What all operators share: their contract, batches of elements, dead letters, elements held back, caches."""
