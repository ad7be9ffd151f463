"""API tokens get an expiry, a role and labels, and may be of a service. Those that exist may what their user may."""

from django.db import migrations, models


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
    ]
