"""Chat models: how they are opened, what they cost, who speaks with them, how their replies are read."""
