"""`python -m agent_fabric`: the same as the command `fabric`."""

from agent_fabric.interfaces.cli.main import main

if __name__ == "__main__":
    main()
