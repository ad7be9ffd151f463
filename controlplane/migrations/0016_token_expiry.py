"""API tokens get an expiry, a role and labels, and may be of a service. Those that exist may what their user may."""

from django.db import migrations, models
from django.db.models import Q


def nothing(apps, schema_editor):
    """Tokens that exist have no limits."""


def delete_limited(apps, schema_editor):
    """The older version knows no limits of tokens: it would let these do all that their user may, for ever."""
    rows = apps.get_model('controlplane', 'ApiToken').objects.select_related('user')
    audit = apps.get_model('controlplane', 'AuditEntry').objects
    unlimited = Q(role='administer', selector={}, expires_at=None)
    for row in rows.exclude(pk__in=rows.filter(unlimited).values('pk')):
        target = f'{row.user.username}/{row.name}'[:200]
        why = {'prefix': row.prefix, 'ended_by': 'rollback'}
        audit.create(actor='migrate', origin='server', verb='tokens.revoke', target=target, before=why)
        row.delete()


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0015_keys_required'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='expires_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='role',
            field=models.CharField(choices=[('read', 'read'), ('operate', 'operate'), ('administer', 'administer')], default='administer', max_length=10),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='selector',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='service',
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(nothing, delete_limited),
    ]
