"""“Keys required” becomes a setting of its own: on where a client key is in force, as requests needed one.

And the salt of client keys can be replaced, with an overlap.
"""

from django.db import migrations, models


def as_before(apps, schema_editor):
    """Only where a key is in force. Where all were revoked, requests were served without one and still are."""
    if apps.get_model('controlplane', 'ClientKey').objects.filter(revoked_at=None).exists():
        apps.get_model('controlplane', 'TableState').objects.update(keys_required=True)


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0014_fleet_expose'),
    ]

    operations = [
        migrations.AddField(
            model_name='tablestate',
            name='keys_required',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='tablestate',
            name='former_salt',
            field=models.CharField(blank=True, default='', max_length=128),
        ),
        migrations.AddField(
            model_name='tablestate',
            name='former_salt_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='clientkey',
            name='under_former_salt',
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(as_before, migrations.RunPython.noop),
    ]
