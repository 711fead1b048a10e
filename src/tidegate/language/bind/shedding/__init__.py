"""SET shedding, WITH (shedding = …) and UTILITY BY."""
