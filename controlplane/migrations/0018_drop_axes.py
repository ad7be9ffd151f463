"""The tables of django-axes, which is used no longer, go with the names, addresses and user agents in them."""

from django.db import migrations

TABLES = ('axes_accessattemptexpiration', 'axes_accessattempt', 'axes_accesslog', 'axes_accessfailurelog')
"""The first refers to the second."""


def drop(apps, schema_editor):
    """Not where the database was made after django-axes. The older version's ``migrate`` makes them again,
    as it finds none of their migrations recorded."""
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        there = connection.introspection.table_names(cursor)
        for table in TABLES:
            if table in there:
                cursor.execute(f'DROP TABLE {schema_editor.quote_name(table)}')
        cursor.execute('DELETE FROM django_migrations WHERE app = %s', ['axes'])


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0017_fleet_labels'),
    ]

    operations = [
        migrations.RunPython(drop, migrations.RunPython.noop),
    ]
