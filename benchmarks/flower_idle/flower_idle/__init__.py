"""A Flower app whose clients give back the weights that they got."""
