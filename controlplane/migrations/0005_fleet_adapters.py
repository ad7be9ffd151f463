from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0004_fleet_match"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleet",
            name="adapters",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
