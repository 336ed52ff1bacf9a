"""Documents read: what files and web pages say, with the page or heading that each text stands under."""
