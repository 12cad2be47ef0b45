"""Tests of the interactive terminal contract."""
