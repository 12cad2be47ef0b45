"""Tests of `ptyctl.fleet`, with real NATS servers."""
