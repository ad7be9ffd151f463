from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0003_client_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleet",
            name="match",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
