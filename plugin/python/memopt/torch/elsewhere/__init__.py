"""Values outside of the device's memory while nothing uses them."""
