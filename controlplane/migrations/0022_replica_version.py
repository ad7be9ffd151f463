from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0021_replica_move"),
    ]

    operations = [
        migrations.AddField(
            model_name="replica",
            name="version",
            field=models.CharField(blank=True, default="", max_length=255),
        ),
    ]
