from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0005_fleet_adapters"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleet",
            name="tls",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
