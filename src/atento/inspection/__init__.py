"""Looking inside models: what heads attend to, and what is lost without them."""
