from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0018_drop_axes"),
    ]

    operations = [
        migrations.AddField(
            model_name="clientkey",
            name="weight",
            field=models.FloatField(default=1.0),
        ),
    ]
