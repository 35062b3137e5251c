"""All formats of the product; see `steps`."""

from alembic import op

from agent_fabric.infrastructure.persistence.migrations.formats import REVISION, lift

revision = REVISION
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the database to the newest format."""
    lift(op.get_bind())


def downgrade() -> None:
    """Refuse: what a newer program has written, an older one cannot read."""
    raise NotImplementedError("There is no way back to an older format; restore a backup")
