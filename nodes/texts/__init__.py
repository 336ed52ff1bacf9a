"""What is said and shown: tasks, answers, quotes, replies, given texts, conversations."""
