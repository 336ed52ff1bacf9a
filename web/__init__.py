"""What the server shows beside the API: a page of its own, and who may ask it anything."""
