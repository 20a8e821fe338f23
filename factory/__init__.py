"""The build host's side: finds an engine, makes a base image, locks, builds, reads back what it built."""
