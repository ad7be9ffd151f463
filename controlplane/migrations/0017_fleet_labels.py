"""Fleets get labels, and accounts roles by label. Accounts that exist have none: ``is_staff`` says their role."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def nothing(apps, schema_editor):
    """No account has a role."""


def disable_limited(apps, schema_editor):
    """The older version knows reading everything and, with ``is_staff``, changing everything: accounts whose
    roles are for some fleets only are disabled, and nobody keeps ``is_staff`` whose roles are lower."""
    grants = apps.get_model('controlplane', 'RoleGrant').objects
    accounts = apps.get_model(*settings.AUTH_USER_MODEL.split('.')).objects
    audit = apps.get_model('controlplane', 'AuditEntry').objects
    everywhere = grants.filter(selector={})
    limited = accounts.filter(is_superuser=False, pk__in=grants.values('user'))
    limited.exclude(pk__in=everywhere.filter(role='administer').values('user')).update(is_staff=False)
    for user in limited.filter(is_active=True).exclude(pk__in=everywhere.values('user')):
        roles = [[one.role, one.selector] for one in grants.filter(user=user)]
        why = {'roles': roles, 'ended_by': 'rollback'}
        audit.create(actor='migrate', origin='server', verb='accounts.disable', target=user.username, before=why)
        accounts.filter(pk=user.pk).update(is_active=False)


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0016_token_expiry'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='fleet',
            name='labels',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.CreateModel(
            name='RoleGrant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('read', 'read'), ('operate', 'operate'), ('administer', 'administer')], max_length=10)),
                ('selector', models.JSONField(blank=True, default=dict)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='role_grants', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.RunPython(nothing, disable_limited),
    ]
