"""A site with django-ratelimit: 5 logins a minute, by the address of the client."""

import sys

import program

try:
    import django
    from django.conf import settings
    from django.http import HttpResponse
    from django.test import Client
    from django.urls import path
    from django_ratelimit.core import get_usage
    from django_ratelimit.decorators import ratelimit
except ImportError as error:
    program.skip(error)

settings.configure(
    ALLOWED_HOSTS=["testserver"],
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": sys.argv[1],
        }
    },
    ROOT_URLCONF=__name__,
)
django.setup()


@ratelimit(group="login", key="ip", rate="5/m", block=False)
def login(request):
    usage = get_usage(request, group="login", key="ip", rate="5/m")
    return HttpResponse(usage["count"], status=429 if request.limited else 200)


urlpatterns = [path("login", login)]
client = Client()


def decide(key):
    answer = client.get("/login", REMOTE_ADDR=key)
    return answer.status_code == 429, answer.content.decode()


program.run(decide)
