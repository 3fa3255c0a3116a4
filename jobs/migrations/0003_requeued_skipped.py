from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0002_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='requeued',
            name='skipped',
            field=models.BooleanField(default=False, help_text='Left out of this pass; checkpoints still say it remains'),
        ),
    ]
