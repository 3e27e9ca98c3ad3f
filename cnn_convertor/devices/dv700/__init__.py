"""The DV700: what it can do, and how a graph becomes its commands and packed weights."""
