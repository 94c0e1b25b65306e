<?php

return [
    'api/items' => [
        'limits' => ['items' => 'SLIDE 100 10s'],
        'by' => 'ip',
        'whitelist' => ['127.0.0.7', 'monitor'],
        'failure' => 'open',
    ],
    'api/login' => [
        'limits' => ['minute' => 'SLIDE 5 1m', 'day' => 'FIXED 50 1d'],
        'by' => 'user',
        'failure' => 'closed',
    ],
    'api/users/{id}' => [
        'limits' => ['users' => 'SLIDE 3 1m'],
        'by' => 'ip',
        'failure' => 'open',
    ],
    'api/export' => [
        'limits' => ['export' => 'TOKEN 10 1 PER 1s'],
        'by' => 'route',
        'failure' => 'closed',
    ],
];
