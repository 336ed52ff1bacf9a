"""Texts of debates: tasks, answers, quotes, replies, given texts and conversations."""
