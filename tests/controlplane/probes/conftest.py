"""The tests beside this file import models, so Django must be ready when they are collected."""

import django

django.setup()
