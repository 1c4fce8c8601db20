"""Labels, gold, queue and pools driven at random beside a small reference of what people said."""
