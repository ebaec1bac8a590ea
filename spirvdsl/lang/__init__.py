"""What an author writes with. Import from `spirvdsl`."""
